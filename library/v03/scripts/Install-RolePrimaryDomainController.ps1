function Install-RolePrimaryDomainController {
    # Makes this machine the first controller of a new forest; it restarts afterwards.
    param([Parameter(Mandatory)] [string] $DomainName, [Parameter(Mandatory)] [string] $SafeModePassword)
    if ((Get-CimInstance Win32_ComputerSystem).DomainRole -ge 4) {
        Write-Log 'This machine is a domain controller already'
        return
    }
    Install-Feature -Name AD-Domain-Services, DNS
    Import-Module ADDSDeployment
    $secret = ConvertTo-SecureString -String $SafeModePassword -AsPlainText -Force
    Install-ADDSForest -DomainName $DomainName -SafeModeAdministratorPassword $secret `
        -InstallDns -NoRebootOnCompletion -Force | Out-Null
    Write-Log "The forest $DomainName is created"
}
